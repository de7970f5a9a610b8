;; Returns from the first reconcile of a warm instance, and never from the second.
;; expect: retry: 1, deadline of 0.3 s, retry: 1, deadline of 0.3 s
@warm
(global $n (mut i32) (i32.const 48))
(func $reconcile (type $reconcile)
  (global.set $n (i32.add (global.get $n) (i32.const 1)))
  (if (i32.gt_u (global.get $n) (i32.const 49)) (then (call $spin)))
  (i32.store8 (i32.const 512) (global.get $n)) (call $retry (i32.const 512) (i32.const 1)))
