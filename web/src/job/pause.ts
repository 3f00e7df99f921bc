/** Lets the browser paint and answer before it resolves, or waits for `ms`. */
export const pause = (ms = 0): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
