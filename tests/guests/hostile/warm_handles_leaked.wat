;; Opens 200 pollables in each reconcile of a warm instance, and closes none.
;; expect: retry: 1, retry: 2, trap: resource table has no free keys, retry: 1
@warm
(global $n (mut i32) (i32.const 48)) (global $open (mut i32) (i32.const 0))
(func $reconcile (type $reconcile)
  (global.set $n (i32.add (global.get $n) (i32.const 1))) (global.set $open (i32.const 0))
  (loop $more
    (drop (call $subscribe_duration (i64.const 0)))
    (global.set $open (i32.add (global.get $open) (i32.const 1)))
    (br_if $more (i32.lt_u (global.get $open) (i32.const 200))))
  (i32.store8 (i32.const 512) (global.get $n)) (call $retry (i32.const 512) (i32.const 1)))
