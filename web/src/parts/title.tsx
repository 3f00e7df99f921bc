import { useEffect } from "react";

type Props = {
  children: string;
  /** Only for those who listen. */
  hidden?: boolean;
};

/** What the page is about: its first heading, and the title of the tab. Every page has one. */
export const Title = ({ children, hidden = false }: Props) => {
  useEffect(() => {
    document.title = `${children} · svc`;
  }, [children]);
  return <h1 className={hidden ? "visually-hidden" : undefined}>{children}</h1>;
};
