import { Component, type ReactNode } from "react";

type Props = { children: ReactNode };

/** Shows a page that failed as failed, and leaves the rest in use. */
export class Boundary extends Component<Props, { error: Error | null }> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    // After an update of the service the files of this version are gone.
    const isOld = /dynamically imported module|Importing a module/i.test(error.message);
    return (
      <div className="page-state failed" role="alert">
        <h2>{isOld ? "The service was updated" : "This page failed"}</h2>
        <p>{isOld ? "Load the page again to go on with the new version." : error.message}</p>
        <button type="button" onClick={() => location.reload()}>
          Load again
        </button>
      </div>
    );
  }
}
