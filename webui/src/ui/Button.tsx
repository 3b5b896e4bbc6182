import type { ComponentProps } from "react";

interface ButtonProps extends ComponentProps<"button"> {
  look?: "primary" | "danger" | "plain" | undefined;
  small?: boolean;
}

export function Button({ look, small = false, className = "", ...rest }: ButtonProps) {
  const classes = ["button", look ?? "", small ? "small" : "", className].filter(Boolean).join(" ");
  return <button type="button" className={classes} {...rest} />;
}
