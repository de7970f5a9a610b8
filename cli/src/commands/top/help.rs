//! The page with the keys, and the keys of the last line.

use super::{app::App, page::Page};

/// The keys, for 80 columns.
pub const HELP: &str = "\
Move    j k ↑ ↓  one row          PgUp PgDn Ctrl-b Ctrl-f  a page     g G  ends
Show    Enter    details of a Plugin, YAML of other objects
        d y      YAML, without managedFields and values of Secrets
        l        log of a Plugin
        :        another kind, by any name kubectl takes, and a namespace:
                 :pods   :deploy team   :foos.example.com all   :plugins   :q
        0 n      all namespaces, or one
        /        filter by text; /!text hides the rows with it; Esc clears it
        Space    pause the screen, and resume
Sort    P M      by CPU%, by MEM
        R E U    by RATE/s, by ERR/s, by QUEUE
        N A      by name, by age
        < >      by the column on the left, on the right
        I        in reverse order
End     Esc q    back to the table; q there quits, and Ctrl-C anywhere

CPU%     processor time of the plugin's code; 100 is one processor
RATE/s   reconciles per second, failed ones included; ERR/s the failed ones
P50 P99  durations of the reconciles since the last update
QUEUE    keys that wait for a worker
MEM      peak linear memory of one instance
-        not known: no reconcile, or no metrics (the third line says why)
Without metrics, QUEUE and MEM are those of the status, up to a minute old.";

/// The keys of the last line, the most useful to a new user first.
pub fn hints(app: &App) -> &'static [&'static str] {
    match (app.pages.last().map(|opening| &opening.page), &app.plugins) {
        (None, Some(_)) => &[
            "? help",
            "q quit",
            "⏎ details",
            "l log",
            "y yaml",
            "/ filter",
            ": kind",
            "< > I sort",
            "0 all",
            "n namespace",
            "P M R E U sort by a column",
            "space pause",
        ],
        (None, None) => &[
            "? help",
            "q quit",
            "⏎ yaml",
            "/ filter",
            ": kind",
            "< > I sort",
            "0 all",
            "n namespace",
            "space pause",
        ],
        (Some(Page::Details(_)), _) => {
            &["Esc back", "l log", "y yaml", "j k scroll", "space pause"]
        }
        (Some(_), _) => &["Esc back", "j k g G scroll", "space pause"],
    }
}
