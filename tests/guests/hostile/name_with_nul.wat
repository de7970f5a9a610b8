;; Reads an object with a NUL character in its name.
;; expect: terminal: "a\0b" is not a valid name: it has a control character...
@controllers [{"name":"c","for":{"apiVersion":"v1","kind":"ConfigMap","namespaces":"Own","labelSelector":"operetta-fixture=true"}}]
(func $reconcile (type $reconcile)
  (call $get
    (i32.const 64) (i32.const 2) (i32.const 66) (i32.const 3) (i32.const 1) (i32.const 69) (i32.const 1)
    (i32.const 1024) (i32.const 3) (i32.const 0) (i32.const 256))
  (if (result i32) (i32.load8_u (i32.const 256)) (then (call $retry_error)) (else (i32.const 16))))
(data (i32.const 1024) "a\00b")
