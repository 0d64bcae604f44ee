"""The APIs of LLM providers, as the fakes speak them."""
