// The text field that filters a page; the key `/` focuses it.

/** The field. */
export function FilterInput(props: { label: string; value: string; onInput: (value: string) => void }) {
  return (
    <label class="filter">
      <span>{props.label}</span>
      <input type="search" data-filter autocomplete="off" spellcheck={false} value={props.value} onInput={(event) => props.onInput(event.currentTarget.value)} />
    </label>
  );
}

/** A field whose value counts when it is complete: on Enter, or when it is left. */
export function CommittedInput(props: { label: string; value: string; placeholder?: string; suggestions?: string[]; onCommit: (value: string) => void }) {
  const list = props.suggestions?.length ? `list-${props.label.replaceAll(/\W/g, "-")}` : undefined;
  return (
    <label class="filter">
      <span>{props.label}</span>
      <input
        type="text"
        autocomplete="off"
        spellcheck={false}
        value={props.value}
        placeholder={props.placeholder}
        {...(list && { list })}
        onChange={(event) => props.onCommit(event.currentTarget.value.trim())}
      />
      {list && (
        <datalist id={list}>
          {props.suggestions?.map((suggestion) => (
            <option key={suggestion} value={suggestion} />
          ))}
        </datalist>
      )}
    </label>
  );
}
