type Pressed = { isComposing: boolean; keyCode: number };

/** Whether a key belongs to an input method that composes. Safari sends the Enter that ends it afterwards, as 229. */
export const isComposing = ({ isComposing: isOpen, keyCode }: Pressed): boolean => isOpen || keyCode === 229;
