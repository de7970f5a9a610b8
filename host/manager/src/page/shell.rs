//! The frame of each page: the navigation, and the main part, which the script takes over.

use super::{assets::hashed, html::Html};

/// Returns a complete page. Without a user it has no navigation.
pub(super) fn document(title: &str, user: Option<&str>, main: Html) -> String {
    let html = Html::default()
        .markup("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">")
        .markup("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>")
        .text(title)
        .markup(" – Operetta</title><link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"/page/assets/")
        .text(hashed("app.css"))
        .markup("\">");
    let html = match user {
        Some(_) => html
            .markup("<script type=\"module\" src=\"/page/assets/")
            .text(hashed("app.js"))
            .markup("\"></script></head><body>"),
        None => html.markup("</head><body>"),
    };
    let html = match user {
        Some(user) => html.html(navigation(user)),
        None => html,
    };
    html.markup("<main id=\"app\">")
        .html(main)
        .markup("</main></body></html>")
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
