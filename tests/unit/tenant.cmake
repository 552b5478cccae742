wakegate_unit_test(test_tenant DEPS tenant config base)
