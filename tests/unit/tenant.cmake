wakegate_unit_test(test_keys DEPS tenant config base)
