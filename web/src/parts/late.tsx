import { useEffect, useReducer, useState, type ComponentType } from "react";
import { Loading } from "./states.tsx";

/** A part of the page whose files did not come: the service is away, or has been updated and has them no more. */
export class LoadError extends Error {
  override name = "LoadError";
}

/**
 * A page that is loaded when it is first shown, or by `begin`. Not React's `lazy`: once it has waited, it waits on
 * for 0.3 s so that nothing flickers, which `Loading` sees to by itself.
 */
export const late = (load: () => Promise<{ default: ComponentType }>) => {
  let Loaded: ComponentType | null = null;
  let loading: Promise<void> | undefined;
  const begin = (): Promise<void> =>
    (loading ??= load().then(
      (module) => void (Loaded = module.default),
      (error: unknown) => {
        loading = undefined;
        throw new LoadError("A part of this page could not be loaded", { cause: error });
      },
    ));

  const Late = () => {
    const [failure, fail] = useState<LoadError | null>(null);
    const [, show] = useReducer((times: number) => times + 1, 0);
    useEffect(() => {
      if (Loaded === null) void begin().then(show, fail);
    }, []);
    if (failure !== null) throw failure;
    return Loaded === null ? <Loading /> : <Loaded />;
  };
  return Object.assign(Late, { begin });
};
