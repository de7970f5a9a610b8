// A titled part of a page, and what stands in for content that is not there.

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Status } from "../model/connection.ts";

/** A part of a page with a heading. `empty` says that there is nothing to show: the panel is one line then. */
export function Panel(props: { title: string; note?: ComponentChildren; empty?: string | false | undefined; wide?: boolean; actions?: ComponentChildren; children: ComponentChildren }) {
  const id = useId();
  return (
    <section class={props.wide ? "panel wide" : "panel"} aria-labelledby={id}>
      <div class="panel-head">
        <h2 id={id}>{props.title}</h2>
        {(props.empty || props.note !== undefined) && <span class="note">{props.empty || props.note}</span>}
        {props.actions && <div class="actions">{props.actions}</div>}
      </div>
      {!props.empty && props.children}
    </section>
  );
}

/** The text where there is nothing to show. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** Grey lines of the height of the content that is being loaded. */
export function Loading({ lines = 4, what }: { lines?: number; what: string }) {
  return (
    <div class="loading" role="status">
      <span class="visually-hidden">Loading {what}…</span>
      {Array.from({ length: lines }, (_, i) => (
        <div class="bone" key={i} aria-hidden="true" />
      ))}
    </div>
  );
}

/** A refusal of the host: the reason, the message with the missing right, and what happens next. */
export function Refusal({ status, what }: { status: Status; what: string }) {
  return (
    <div class="refusal" role="alert">
      <p>
        <strong>{status.reason ? `${what}: ${status.reason}` : `${what} cannot be shown`}</strong>
      </p>
      <p>{status.message}</p>
      <p class="note">The page asks again every 15 seconds.</p>
    </div>
  );
}

/** A number with its name. */
export function Stat({ name, value, title }: { name: string; value: ComponentChildren; title?: string }) {
  return (
    <div class="stat" title={title}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
