;; Has eight memories that stay below the limit one by one, but not together.
;; expect: refused DescribeMemoryExceeded: describe() exceeded its memory limit of 16 MiB
@modules 7 (module (memory 48))
