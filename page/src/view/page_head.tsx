// The head of a page: where it is, its title, and what it is about in a line. After a navigation it has the focus, so that a
// screen reader reads the new title.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** A step of the way to a page. */
export interface Crumb {
  text: string;
  href: string;
}

let loaded = false;

/** The head. `title` is also the document's title. */
export function PageHead(props: { title: string; crumbs?: Crumb[]; context?: string; children?: ComponentChildren }) {
  const ref = useRef<HTMLHeadingElement>(null);
  const documentTitle = [props.title, props.context, "Operetta"].filter(Boolean).join(" · ");
  useEffect(() => {
    document.title = documentTitle;
  }, [documentTitle]);
  useEffect(() => {
    // The first page of a load leaves the focus where the browser puts it. A title that changes later takes no focus: the user may
    // be typing.
    if (loaded) ref.current?.focus({ preventScroll: true });
    loaded = true;
  }, []);
  return (
    <div class="page-head">
      {props.crumbs && (
        <nav aria-label="Breadcrumb">
          <ol class="crumbs">
            {props.crumbs.map((crumb) => (
              <li key={crumb.href}>
                <a href={crumb.href}>{crumb.text}</a>
              </li>
            ))}
          </ol>
        </nav>
      )}
      <h1 ref={ref} tabIndex={-1}>
        {props.title}
      </h1>
      {props.children}
    </div>
  );
}
