import { createStore } from "./store.ts";

const look = (): boolean => document.visibilityState === "visible";

/** Whether the tab is in front. One that is not keeps no connection that it can take up again. */
export const isSeen = createStore(look());

document.addEventListener("visibilitychange", () => isSeen.set(look()));
