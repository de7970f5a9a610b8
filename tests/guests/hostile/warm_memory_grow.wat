;; Grows by 5 MiB in each reconcile of a warm instance, until the host refuses.
;; expect: retry: 1, retry: 2, retry: 3, memory over 16777216 bytes
@warm
(global $n (mut i32) (i32.const 48)) (global $from (mut i32) (i32.const 0))
(func $reconcile (type $reconcile)
  (global.set $n (i32.add (global.get $n) (i32.const 1)))
  (global.set $from (memory.grow (i32.const 80)))
  (if (i32.eq (global.get $from) (i32.const -1)) (then unreachable))
  (memory.fill (i32.shl (global.get $from) (i32.const 16)) (i32.const 1) (i32.const 5242880))
  (i32.store8 (i32.const 512) (global.get $n)) (call $retry (i32.const 512) (i32.const 1)))
