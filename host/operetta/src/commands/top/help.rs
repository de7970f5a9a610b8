//! The page with the keys.

/// The keys, for 80 columns.
pub const HELP: &str = "\
Move    j k ↑ ↓  one row          PgUp PgDn Ctrl-b Ctrl-f  a page     g G  ends
Show    Enter    details of a Plugin, YAML of other objects
        d y      YAML, without managedFields and values of Secrets
        l        log of a Plugin
        :        another kind, by each name that kubectl takes, and a namespace:
                 :pods   :deploy team   :foos.example.com all   :plugins   :q
        0 n      all namespaces, or one
        /        filter by text; /!text hides the rows with it; Esc clears it
        Space    stop the screen, and go on
Sort    P M      by CPU%, by MEM
        R E U    by RATE/s, by ERR/s, by QUEUE
        N A      by name, by age
        < >      by the column on the left, on the right
        I        the other way round
End     Esc q    back to the table; q there ends, as Ctrl-C does everywhere

CPU%     processor time of the plugin's code; 100 is one processor
RATE/s   reconciles per second, failed ones included; ERR/s the failed ones
P50 P99  durations of the reconciles since the last update
QUEUE    keys that wait for a worker
MEM      peak linear memory of one instance
-        not known: no reconcile, or no metrics (the third line says why)
Without metrics QUEUE and MEM are those of the Plugin's status, a minute old.";
