// A function without a body, as runtime.sbrk is declared in arena_wasip1.go, needs an assembly file in its package.
