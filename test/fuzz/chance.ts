/** Numbers from 0 to below `below`, the same for the same seed. */
export type Chance = (below: number) => number;

export const chanceOf = (seed: number): Chance => {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
};

export const pick = <Value>(chance: Chance, from: readonly Value[]): Value =>
  from[chance(from.length)] as Value;

/** So many different ones, in an order of their own. */
export const pickSome = <Value>(chance: Chance, from: readonly Value[], count: number): Value[] => {
  const rest = [...from];
  return Array.from({ length: Math.min(count, rest.length) }, () =>
    rest.splice(chance(rest.length), 1),
  ).flat();
};
