;; Reads an object whose name is a path to another one.
;; expect: terminal: no object can have the name "../../kube-system/secrets/x"...
@controllers [{"name":"c","for":{"apiVersion":"v1","kind":"ConfigMap","namespaces":"Own","labelSelector":"operetta-fixture=true"}}]
(func $reconcile (type $reconcile)
  (call $get (i32.const 512) (i32.const 2) (i32.const 1024) (i32.const 9) (i32.const 1)
    (i32.const 1536) (i32.const 1) (i32.const 2048) (i32.const 27) (i32.const 1) (i32.const 256))
  (if (result i32) (i32.load8_u (i32.const 256)) (then (call $retry_error)) (else (i32.const 16))))
(data (i32.const 512) "v1") (data (i32.const 1024) "ConfigMap") (data (i32.const 1536) "n")
(data (i32.const 2048) "../../kube-system/secrets/x")
