//! The frame of each page: the navigation, and the main part, which the script takes over.

use super::{assets::hashed, html::Html};

/// What a browser without JavaScript shows.
const NEEDS_SCRIPT: &str = "<noscript><p>In a browser, this page needs JavaScript. Other clients send a token in the header Authorization.</p></noscript>";

/// Returns a complete page. Without a user it has neither navigation nor script.
pub(super) fn document(title: &str, user: Option<&str>, main: Html) -> String {
    let main = Html::default()
        .markup("<main id=\"app\">")
        .html(main)
        .markup("</main>");
    match user {
        Some(user) => framed(title, true, navigation(user).html(main)),
        None => framed(title, false, main),
    }
}

/// Returns the page that only loads the script: whoever gets it proves nothing.
pub(super) fn without_data() -> String {
    let main = Html::default()
        .markup("<main id=\"app\"><h1>Operetta</h1>")
        .markup(NEEDS_SCRIPT)
        .markup("</main>");
    framed("Operetta", true, main)
}

/// Returns the page that ends the sign-in: its script keeps the session's secret and goes on to
/// `next`.
pub(super) fn signed_in(secret: &str, next: &str) -> String {
    let main = Html::default()
        .markup("<main id=\"app\" data-secret=\"")
        .text(secret)
        .markup("\" data-next=\"")
        .text(next)
        .markup("\"><h1>Signed in to Operetta</h1>")
        .markup(NEEDS_SCRIPT)
        .markup("</main>");
    framed("Signed in", true, main)
}

fn framed(title: &str, has_script: bool, body: Html) -> String {
    let html = Html::default()
        .markup("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">")
        .markup("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>")
        .text(title)
        .markup(" – Operetta</title><link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"/page/assets/")
        .text(hashed("app.css"))
        .markup("\">");
    let html = if has_script {
        html.markup("<script type=\"module\" src=\"/page/assets/")
            .text(hashed("app.js"))
            .markup("\"></script>")
    } else {
        html
    };
    html.markup("</head><body>")
        .html(body)
        .markup("</body></html>")
        .into_string()
}

fn navigation(user: &str) -> Html {
    Html::default()
        .markup("<header><nav aria-label=\"Pages\"><a href=\"/page/plugins\">Plugins</a> <a href=\"/page/kinds\">Kinds</a> ")
        .markup("<a href=\"/page/tenants\">Tenants</a> <a href=\"/page/informers\">Informers</a></nav>")
        .markup("<form method=\"post\" action=\"/page/sign-out\"><span>")
        .text(user)
        .markup("</span> <button>Sign out</button></form></header>")
}
