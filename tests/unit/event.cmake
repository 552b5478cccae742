wakegate_unit_test(test_timer DEPS event base)
wakegate_unit_test(test_mailbox DEPS event base)
wakegate_unit_test(test_conn DEPS event base)
wakegate_unit_test(test_conn_tls DEPS event tls base)
