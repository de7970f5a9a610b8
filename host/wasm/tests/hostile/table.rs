//! A test that the table of the corpus in tests/guests/README.md matches the files.

use std::fs;

use operetta_testkit::hostile::all;

const PAGE: &str = "../../tests/guests/README.md";
const HEADER: &str = "| guest | attack | expected result |\n|---|---|---|\n";

#[test]
fn table_in_the_repository_matches_files() {
    let escaped = |text: String| text.replace('|', "\\|");
    let row = |name: &str, does: String, expected: String| {
        format!(
            "| `{name}` | {} | `{}` |\n",
            escaped(does),
            escaped(expected)
        )
    };
    let rows: String = all()
        .map(|fixture| row(fixture.name, fixture.does(), fixture.expected()))
        .collect();
    let page = fs::read_to_string(PAGE).expect("the page");
    let (before, _) = page
        .split_once(HEADER)
        .expect("the table at the end of the page");
    let expected = format!("{before}{HEADER}{rows}");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(PAGE, &expected).expect("written");
    } else {
        assert_eq!(
            page, expected,
            "run UPDATE_GENERATED=1 cargo test --workspace --test hostile in_the_repository"
        );
    }
}
