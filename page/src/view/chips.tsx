// Facets with their counts, as buttons that filter.

import { useState } from "preact/hooks";
import { facetGroup } from "../model/filter.ts";
import { conditionHealth, HEALTH_WORDS } from "../model/health.ts";
import { count } from "../model/units.ts";
import { Shape } from "./state.tsx";
import type { Health } from "../api/types.ts";

const FEW = 10;
const HEALTHS: Health[] = ["bad", "progressing", "unknown", "ok"];

/** A facet as it is shown. */
interface Chip {
  facet: string;
  text: string;
  health: Health;
  rows: number;
}

/** Returns the chips of the counted and the chosen facets: healths, then conditions by name. */
export function chipsOf(counts: Map<string, number>, chosen: string[]): Chip[] {
  const facets = new Set([...counts.keys(), ...chosen]);
  const healths = HEALTHS.filter((health) => facets.has(`health:${health}`)).map((health) => ({
    facet: `health:${health}`,
    text: HEALTH_WORDS[health],
    health,
    rows: counts.get(`health:${health}`) ?? 0,
  }));
  const conditions = [...facets].filter((facet) => facet.includes("=")).sort().map((facet) => {
    const type = facetGroup(facet);
    const status = facet.slice(type.length + 1);
    return { facet, text: `${type}: ${status}`, health: conditionHealth(type, status), rows: counts.get(facet) ?? 0 };
  });
  return [...healths, ...conditions];
}

/** The chips of a table. */
export function Chips(props: { counts: Map<string, number>; chosen: string[]; onToggle: (facet: string) => void }) {
  const [all, setAll] = useState(false);
  const chips = chipsOf(props.counts, props.chosen);
  const shown = all ? chips : chips.filter((chip, i) => i < FEW || props.chosen.includes(chip.facet));
  return (
    <div class="chips" role="group" aria-label="Filter by health and condition">
      {shown.map((chip) => (
        <button key={chip.facet} type="button" class="chip" aria-pressed={props.chosen.includes(chip.facet)} onClick={() => props.onToggle(chip.facet)}>
          <Shape health={chip.health} />
          {chip.text} <span class="count">{count(chip.rows)}</span>
        </button>
      ))}
      {chips.length > FEW && (
        <button type="button" class="chip more" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? "Fewer" : `${chips.length - FEW} more`}
        </button>
      )}
    </div>
  );
}
