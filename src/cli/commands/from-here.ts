import { resolve } from "node:path";

/** The service has another working directory: a relative path means one seen from here. */
export const fromHere = (place: string): string => (/^\.{1,2}(\/|$)/.test(place) ? resolve(place) : place);
