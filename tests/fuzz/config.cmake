wakegate_fuzz(config DEPS config base)
