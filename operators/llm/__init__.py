"""Operators that ask a language model.

consult    the protocol through which an operator asks; who answers is the engine's matter
client     litellm: one request to a provider, every failure a value; failures, loading
patience   retries, models that are benched, requests in flight
keys       where keys come from, and where they must not go; prices: what models cost
prompt     what is asked for each operator: made of passages, cut to a budget
sections   the form of its text, in which nobody else's text leaves its fence
passages   sections about this problem, device and search; describe, graph_words: data in words
template   texts that never change, in templates/; focus: what an island pays attention to
lessons    what failed evaluations teach
reply      a model's answer to a program, or to a precise reason why there is none; fences, edits
           and remark find its parts, program says what a program is
conversation  a question and its follow-ups: go on, correct, once more with less; joining: two parts
operators  llm.translate, llm.mutate, llm.crossover, llm.repair
"""
