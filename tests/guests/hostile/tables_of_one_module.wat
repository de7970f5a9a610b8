;; Has eight tables of 65,536 elements, as many as a component may have, and fills them in each reconcile.
;; expect: done
@repeat 8 (table $t{n} 65536 funcref) @end
(func $f) (elem declare func $f)
(func $reconcile (type $reconcile)
  @repeat 8 (table.fill $t{n} (i32.const 0) (ref.func $f) (i32.const 65536)) @end
  (i32.const 16))
