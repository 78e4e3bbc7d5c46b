/* cfg_provider_table.h - model providers whose address is known: they speak OpenAI's API at this
 * base. X("provider", "api_base", "KEY_VARIABLE", "BASE_VARIABLE"): the variables stand in for
 * api_key and api_base that the file leaves out; "" = none. Any other provider works with an
 * explicit api_base. */
#ifndef CFD_CONFIG_CFG_PROVIDER_TABLE_H
#define CFD_CONFIG_CFG_PROVIDER_TABLE_H

/* clang-format off */
#define CFG_PROVIDER_TABLE(X) \
    X("openai",       "https://api.openai.com/v1",                               "OPENAI_API_KEY",       "OPENAI_BASE_URL") \
    X("anthropic",    "https://api.anthropic.com/v1",                            "ANTHROPIC_API_KEY",    "") \
    X("cerebras",     "https://api.cerebras.ai/v1",                              "CEREBRAS_API_KEY",     "") \
    X("cohere",       "https://api.cohere.ai/compatibility/v1",                  "COHERE_API_KEY",       "") \
    X("deepinfra",    "https://api.deepinfra.com/v1/openai",                     "DEEPINFRA_API_KEY",    "") \
    X("deepseek",     "https://api.deepseek.com/v1",                             "DEEPSEEK_API_KEY",     "") \
    X("fireworks_ai", "https://api.fireworks.ai/inference/v1",                   "FIREWORKS_API_KEY",    "") \
    X("gemini",       "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY",       "") \
    X("groq",         "https://api.groq.com/openai/v1",                          "GROQ_API_KEY",         "") \
    X("mistral",      "https://api.mistral.ai/v1",                               "MISTRAL_API_KEY",      "") \
    X("nvidia_nim",   "https://integrate.api.nvidia.com/v1",                     "NVIDIA_NIM_API_KEY",   "") \
    X("ollama",       "http://localhost:11434/v1",                               "",                     "") \
    X("openrouter",   "https://openrouter.ai/api/v1",                            "OPENROUTER_API_KEY",   "") \
    X("perplexity",   "https://api.perplexity.ai",                               "PERPLEXITYAI_API_KEY", "") \
    X("sambanova",    "https://api.sambanova.ai/v1",                             "SAMBANOVA_API_KEY",    "") \
    X("together_ai",  "https://api.together.xyz/v1",                             "TOGETHERAI_API_KEY",   "") \
    X("xai",          "https://api.x.ai/v1",                                     "XAI_API_KEY",          "")

/* X("provider", "remedy"): APIs that are not OpenAI's; naming one is an error. */
#define CFG_PROVIDER_REFUSED_TABLE(X) \
    X("azure",      "use openai/DEPLOYMENT with api_base: https://RESOURCE.openai.azure.com/openai/v1") \
    X("azure_text", "use openai/DEPLOYMENT with api_base: https://RESOURCE.openai.azure.com/openai/v1") \
    X("bedrock",    "use openai/MODEL with the api_base of an OpenAI-compatible endpoint") \
    X("sagemaker",  "use openai/MODEL with the api_base of an OpenAI-compatible endpoint") \
    X("vertex_ai",  "use openai/MODEL with the api_base of an OpenAI-compatible endpoint") \
    X("watsonx",    "use openai/MODEL with the api_base of an OpenAI-compatible endpoint")
/* clang-format on */

#endif
