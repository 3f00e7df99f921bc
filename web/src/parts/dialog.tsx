import { useEffect, useId, useRef, type ReactNode } from "react";

type Props = {
  title: string;
  children: ReactNode;
  /** Absent: it cannot be closed. */
  onClose?: () => void;
  wide?: boolean;
};

/** A dialog over the page, which cannot be used meanwhile. Escape closes it. Its first field has the focus. */
export const Dialog = ({ title, children, onClose, wide = false }: Props) => {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    element?.querySelector<HTMLElement>("textarea, input, select")?.focus();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={wide ? "wide" : ""}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
    >
      <header>
        <h2 id={heading}>{title}</h2>
        {onClose && (
          <button type="button" className="quiet" onClick={onClose}>
            <span className="visually-hidden">Close </span>
            <kbd>esc</kbd>
          </button>
        )}
      </header>
      {children}
    </dialog>
  );
};
