;; Fills a table of 65,536 elements in its first reconcile, and keeps it as a warm instance.
;; expect: retry: 1, retry: 2, retry: 3, retry: 4
@warm
(table $t 1 funcref) (func $f) (elem declare func $f)
(global $n (mut i32) (i32.const 48))
(func $reconcile (type $reconcile)
  (global.set $n (i32.add (global.get $n) (i32.const 1)))
  (if (i32.eq (global.get $n) (i32.const 49)) (then
    (if (i32.eq (table.grow $t (ref.func $f) (i32.const 65535)) (i32.const -1)) (then unreachable))))
  (if (ref.is_null (table.get $t (i32.const 65535))) (then unreachable))
  (i32.store8 (i32.const 512) (global.get $n)) (call $retry (i32.const 512) (i32.const 1)))
