;; Reads an object whose name contains an HTTP header.
;; expect: terminal: no object can have the name ...Impersonate-User: admin...
@controllers [{"name":"c","for":{"apiVersion":"v1","kind":"ConfigMap","namespaces":"Own","labelSelector":"operetta-fixture=true"}}]
(func $reconcile (type $reconcile)
  (call $get (i32.const 512) (i32.const 2) (i32.const 1024) (i32.const 9) (i32.const 1)
    (i32.const 1536) (i32.const 1) (i32.const 2048) (i32.const 37) (i32.const 1) (i32.const 256))
  (if (result i32) (i32.load8_u (i32.const 256)) (then (call $retry_error)) (else (i32.const 16))))
(data (i32.const 512) "v1") (data (i32.const 1024) "ConfigMap") (data (i32.const 1536) "n")
(data (i32.const 2048) "\61\20\48\54\54\50\2f\31\2e\31\0d\0a\49\6d\70\65\72\73\6f\6e\61\74\65\2d\55\73\65\72\3a\20\61\64\6d\69\6e\0d\0a")
