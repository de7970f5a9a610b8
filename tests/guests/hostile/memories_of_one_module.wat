;; Has two memories in one module, which the multi-memory proposal allows.
;; expect: refused CompileFailed: ...memories count of 2 exceeds the per-instance limit of 1
(memory (export "memory") 4) (memory $other 4)
(func $reconcile (type $reconcile) (i32.store8 $other (i32.const 0) (i32.const 1)) (i32.const 16))
