// The line that says that the host does not answer. It appears after a moment, so that a short gap does not flash.

import { useEffect, useState } from "preact/hooks";
import { streamStates, watchStreams } from "../api/stream.ts";
import { worst } from "../model/connection.ts";

const PATIENCE = 700;

/** The banner; its live region is always there, so that a screen reader reads its changes. */
export function Banner() {
  const [message, setMessage] = useState("");
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const changed = () => {
      const state = worst(streamStates());
      if (state.phase === "lost") {
        const text = state.message ?? "The connection to the host is lost.";
        timer ??= setTimeout(() => setMessage(text), PATIENCE);
      } else if (state.phase === "open") {
        clearTimeout(timer);
        timer = undefined;
        setMessage("");
      }
    };
    const end = watchStreams(changed);
    changed();
    return () => {
      clearTimeout(timer);
      end();
    };
  }, []);
  return (
    <div role="status" class="banner-place">
      {message && (
        <p class="banner">
          <strong>Connection lost.</strong> {message} What you see may be old; the page connects again by itself.
        </p>
      )}
    </div>
  );
}
