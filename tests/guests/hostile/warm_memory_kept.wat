;; Fills 12 MiB in its first reconcile, and keeps them as a warm instance.
;; expect: retry: 1, retry: 2, retry: 3, retry: 4
@warm
(global $n (mut i32) (i32.const 48))
(func $reconcile (type $reconcile)
  (global.set $n (i32.add (global.get $n) (i32.const 1)))
  (if (i32.eq (global.get $n) (i32.const 49)) (then
    (if (i32.eq (memory.grow (i32.const 192)) (i32.const -1)) (then unreachable))
    (memory.fill (i32.const 196608) (i32.const 1) (i32.const 12582912))))
  (i32.store8 (i32.const 512) (global.get $n)) (call $retry (i32.const 512) (i32.const 1)))
