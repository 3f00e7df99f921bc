import { useEffect } from "react";

type Props = {
  children: string;
  /** Before it in the title of the tab, where people look for what has ended. */
  state?: string;
  /** Only for those who listen. */
  hidden?: boolean;
};

/** What the page is about: its first heading, and the title of the tab. Every page has one. */
export const Title = ({ children, state, hidden = false }: Props) => {
  useEffect(() => {
    document.title = `${state === undefined ? "" : `${state}: `}${children} · svc`;
  }, [children, state]);
  return <h1 className={hidden ? "visually-hidden" : "clamp"}>{children}</h1>;
};
