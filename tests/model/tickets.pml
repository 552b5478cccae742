/* The life of a ticket between its worker and control (include/wakegate/activator.h: hold, leave, going home).
 *
 * Mail keeps its order per sender. A client may leave at any moment. Checked:
 *   - control never touches a ticket that the worker has freed, nor the worker one that control still queues;
 *   - each mail comes home exactly once for each time that it went out;
 *   - a slot that was given to somebody who had left is given back: at the end none is in use;
 *   - nobody waits for ever: that is an invalid end state.
 * FREE_EARLY breaks it: a worker that frees as soon as `mail` is home. */

#define TICKETS 2
#define SLOTS   1

mtype = {MAIL, LEAVE};
chan to_control = [8] of {mtype, byte};
chan home[TICKETS] = [2] of {mtype};

bool freed[TICKETS], queued[TICKETS], returned[TICKETS], dispatched[TICKETS];
byte in_use, mails[TICKETS], leaves[TICKETS];

inline give_back()
{
    atomic {
        assert(in_use > 0);
        in_use--
    }
    freed_slot!true
}
chan freed_slot = [4] of {bool};

active [TICKETS] proctype worker()
{
    bool mail_home, leave_out, leave_home;
    byte tries;
again:
    mail_home = false;
    to_control!MAIL(_pid);
    do
    :: !leave_out && !mail_home ->
        /* The client goes while the ticket is lent. */
        leave_out = true;
        to_control!LEAVE(_pid)
    :: home[_pid]?MAIL ->
        assert(!mail_home && !queued[_pid]);
        mails[_pid]++;
        mail_home = true;
        if
        :: dispatched[_pid] && leave_out -> give_back()
        :: dispatched[_pid] && !leave_out ->
            give_back();
            if
            :: tries < 1 ->
                /* It provably never ran: back to the head of the queue. */
                tries++;
                goto again
            :: true
            fi
        :: else
        fi
    :: home[_pid]?LEAVE ->
        assert(leave_out && !leave_home);
        leave_home = true
#ifdef FREE_EARLY
    :: mail_home -> break
#else
    :: mail_home && leave_out == leave_home -> break
#endif
    od;
    freed[_pid] = true
}

inline go_home(t)
{
    assert(!freed[t] && !returned[t]);
    returned[t] = true;
    home[t]!MAIL
}

active proctype control()
{
    byte t;
end:
    do
    :: to_control?MAIL(t) ->
        assert(!freed[t] && !queued[t]);
        returned[t] = false;
        dispatched[t] = false;
        queued[t] = true
    :: to_control?LEAVE(t) ->
        assert(!freed[t]);
        if
        :: !returned[t] ->
            queued[t] = false;
            go_home(t)
        :: else
        fi;
        assert(!freed[t]);
        home[t]!LEAVE
    :: freed_slot?_
    :: queued[0] && in_use < SLOTS -> t = 0; goto dispatch
    :: queued[1] && in_use < SLOTS -> t = 1; goto dispatch
    :: queued[0] -> t = 0; goto refuse
    :: queued[1] -> t = 1; goto refuse
    od;
dispatch:
    in_use++;
    queued[t] = false;
    dispatched[t] = true;
    go_home(t);
    goto end;
refuse:
    queued[t] = false;
    go_home(t);
    goto end
}

/* When all is over, all is given back. */
active proctype judge()
{
    timeout;
    assert(freed[0] && freed[1]);
    assert(in_use == 0);
    assert(!queued[0] && !queued[1])
}
