// A function without a body, such as sbrk in arena_wasip1.go, needs an assembly file in its package.
