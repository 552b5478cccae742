/* The slot word of one endpoint between workers and control (src/activator/slot.c, hold.c, model.c).
 *
 * Every change of the word is one atomic step, everything between two of them may interleave. Checked:
 *   - no lost wake-up: a ticket that waits while nothing is under way is an invalid end state;
 *   - no slot lost or given twice: in_use is at any time the number of those who hold a slot, and never above the limit;
 *   - no take after the seal: after seal_if_idle succeeded nobody holds or gets a slot until the unseal.
 * Each -D… at the end of this comment breaks the protocol in one way; tests/model/run expects spin to find it.
 *   SCAN_BEFORE_MARK  control looks for a slot before it marks waiters
 *   RELEASE_SILENT    a release reads the mark before, not with, its change
 *   SEAL_IN_TWO       the seal looks at in_use in one step and seals in another */

#define WORKERS 3
#define ROUNDS  2
#define LIMIT   1

byte in_use, holders;
bool waiters, sealed;

mtype = {HOLD, FREED, DISPATCH};
chan to_control = [12] of {mtype, byte};
chan to_worker[WORKERS] = [2] of {mtype};

inline assert_sound()
{
    assert(in_use == holders && in_use <= LIMIT);
}

/* Newcomers mind the mark, control does not. */
inline take(minds, got)
{
    atomic {
        got = !sealed && in_use < LIMIT && !(minds && waiters);
        if
        :: got -> in_use++; holders++; assert_sound()
        :: else
        fi
    }
}

inline release(marked)
{
#ifdef RELEASE_SILENT
    marked = waiters;
#endif
    atomic {
        assert(holders > 0);
        in_use--;
        holders--;
#ifndef RELEASE_SILENT
        marked = waiters;
#endif
        assert_sound()
    }
}

active [WORKERS] proctype worker()
{
    byte round;
    bool got, marked;
    for (round : 1 .. ROUNDS) {
        take(true, got);
        if
        :: got
        :: else ->
            to_control!HOLD(_pid);
            to_worker[_pid]?DISPATCH
        fi;
        /* Here the request runs. */
        release(marked);
        if
        :: marked -> to_control!FREED(_pid)
        :: else
        fi
    }
}

active proctype control()
{
    byte queue[WORKERS * ROUNDS];
    byte first, last, who;
    bool got;

end:
    do
    :: to_control?HOLD(who) ->
        queue[last] = who;
        last++;
        goto dispatch
    :: to_control?FREED(who) ->
        goto dispatch
    :: first == last && !sealed ->
        /* Idle. */
#ifdef SEAL_IN_TWO
        if
        :: in_use == 0 -> sealed = true
        :: else -> skip
        fi;
#else
        atomic {
            if
            :: in_use == 0 -> sealed = true
            :: else -> skip
            fi
        }
#endif
        if
        :: sealed ->
            assert(holders == 0);
            /* Asleep: only a ticket wakes it again. */
            to_control?[HOLD(who)] || to_control?[FREED(who)] || timeout;
            assert(holders == 0)
        :: else
        fi
    od;

dispatch:
    sealed = false;
#ifdef SCAN_BEFORE_MARK
    do
    :: first < last ->
        take(false, got);
        if
        :: got -> to_worker[queue[first]]!DISPATCH; first++
        :: else -> break
        fi
    :: else -> break
    od;
    waiters = first < last;
#else
    if
    :: first < last -> waiters = true
    :: else
    fi;
    do
    :: first < last ->
        take(false, got);
        if
        :: got -> to_worker[queue[first]]!DISPATCH; first++
        :: else -> break
        fi
    :: else -> break
    od;
    if
    :: first == last -> waiters = false
    :: else
    fi;
#endif
    goto end
}
