wakegate_unit_test(test_fetch DEPS fetch event base)
