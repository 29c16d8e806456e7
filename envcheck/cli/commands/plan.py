"""envcheck plan: check whether a job fits in memory, and find the smallest change that makes it fit."""

from __future__ import annotations

from envcheck.cli.job_argument import JobCommand
from envcheck.cli.planning.plan_options import ModelsOptions, PlanOptions, RowsOptions, SearchOptions, SweepOptions
from envcheck.cli.requests import command


@command(
    ModelsOptions, RowsOptions, SearchOptions, SweepOptions, PlanOptions, cls=JobCommand,
    short_help="Check whether a job fits in memory, here or on hardware you describe.",
)  # fmt: skip
def plan(request: ModelsOptions | RowsOptions | SearchOptions | SweepOptions | PlanOptions) -> int:
    """Check whether a job fits in device memory, on this machine or on hardware you describe.

    If the job does not fit, the smallest changes that make it fit are listed.  --output draws the plan (.svg or .png);
    with --rows, it is the .csv file to write.

    --device takes a device type, or here also a card: 910b3, h200, 4090.

    Exit code 0: fits. 1: does not fit, or this machine cannot run the job. 2: usage error. 3: unknown.

    \b
    envcheck plan --model 21b --method lora    check this machine
    envcheck plan --model 21b --method lora --device h200 --cards 8
    envcheck plan --model 300b --method sft --device npu --cards 128 --tp 8
    envcheck plan --model ./mine --method lora --device nvidia --cards 8 --search
    envcheck plan my.yaml                      plan your own job
    envcheck plan --recipe my --recipes dir    plan the job of a recipe
    envcheck plan --model 21b --method lora --sweep seq-len=512..32768
    envcheck plan --rows jobs.csv -o predictions.csv
    envcheck plan --model 300b --method sft --device npu --hosts node[01-08]
    """
    if isinstance(request, ModelsOptions | RowsOptions):
        from envcheck.cli.planning import plan_tables

        if isinstance(request, ModelsOptions):
            return plan_tables.print_models(request.as_json)
        return plan_tables.predict_rows(request)
    from envcheck.cli.planning import plan_actions

    return plan_actions.answer_request(request)
