wakegate_fuzz(skim DEPS openai base)
wakegate_fuzz(multipart DEPS openai base)
wakegate_fuzz(judge DEPS openai base)
