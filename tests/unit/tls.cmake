wakegate_unit_test(test_tls DEPS tls base)
