"""Problems: what is to be made faster.

    problems.problem     Problem, Domain, Scale: what everything downstream sees
    problems.catalogue   the bundled problems at three scales
    problems.loaders     a folder or a file in KernelBench's form
    problems.trace       the operator graph of a problem (loads torch when called)
    problems.graph       that graph as plain data
    problems.footprint   the bytes a problem needs
    problems.errors      the exceptions of EvoKernel

Nothing is imported here: the command line needs the exceptions alone, and answers at once.
"""
