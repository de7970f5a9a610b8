;; Has eight memories in eight modules, as many as a component may have, and fills them at its start.
;; expect: done
@modules 7 (module (memory 16) (func $fill (memory.fill (i32.const 0) (i32.const 1) (i32.const 1048576))) (start $fill))
