;; Reads an object with a name of a megabyte.
;; expect: terminal: the name has 1000000 bytes, over the limit of 512 bytes...
(func $reconcile (type $reconcile)
  (if (i32.eq (memory.grow (i32.const 20)) (i32.const -1)) (then unreachable))
  (memory.fill (i32.const 65536) (i32.const 120) (i32.const 1000000))
  (call $get (i32.const 64) (i32.const 2) (i32.const 66) (i32.const 3) (i32.const 1) (i32.const 69) (i32.const 1)
    (i32.const 65536) (i32.const 1000000) (i32.const 0) (i32.const 256))
  (call $retry_error))
