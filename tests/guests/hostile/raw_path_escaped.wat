;; Sends a raw request whose path has forbidden characters in percent-encoding.
;; expect: retry: ..."code":400...is not an API path: a segment that is not the name of an object has an escape...
@controllers [{"name":"c","for":{"apiVersion":"v1","kind":"ConfigMap","namespaces":"Own","labelSelector":"operetta-fixture=true"}}]
(func $reconcile (type $reconcile)
  (call $send (i32.const 512) (i32.const 3) (i32.const 1024) (i32.const 49)
    (i32.const 1536) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))
  (call $retry (i32.load (i32.const 276)) (i32.load (i32.const 280))))
(data (i32.const 512) "GET") (data (i32.const 1024) "/api/v1/namespaces/n%2f..%2fkube-system/secrets/x") (data (i32.const 1536) "")
(data (i32.const 2048) "")
