;; Has eight tables of 65,536 elements in eight modules, as many as a component may have, and fills them at its start.
;; expect: done
@modules 8 (module (table $t 65536 funcref) (func $fill (table.fill $t (i32.const 0) (ref.func $fill) (i32.const 65536))) (elem declare func $fill) (start $fill))
