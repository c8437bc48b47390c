import { IconArrowLeft } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useScope } from "../hooks/useScope";
import classes from "./BackLink.module.css";

interface Props {
  to: "/t/$scope/deployments" | "/t/$scope/fleet" | "/t/$scope/models";
  children: string;
}

/** From the page of one object to the list that it is in. */
export function BackLink({ to, children }: Props) {
  const { current } = useScope();
  return (
    <Link className={classes.back} to={to} params={{ scope: current?.slug ?? "" }}>
      <IconArrowLeft size={14} aria-hidden="true" />
      {children}
    </Link>
  );
}
