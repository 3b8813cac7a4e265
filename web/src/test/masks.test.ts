import { create } from '@bufbuild/protobuf'
import { Code, ConnectError, createClient, createRouterTransport } from '@connectrpc/connect'
import { expect, test } from 'vitest'
import { ListServicesResponseSchema, ServiceService } from '../gen/fairlead/console/v1/service_service_pb'
import { withoutUnknownFields } from '../hub/masks'

test('a console that does not know a field is asked for all fields, and only once for the mask', async () => {
  const masks: (string[] | undefined)[] = []
  const console = createRouterTransport(
    ({ rpc }) => {
      rpc(ServiceService.method.listServices, (req) => {
        masks.push(req.readMask?.paths)
        if (req.readMask?.paths.includes('spec.newer'))
          throw new ConnectError('read_mask: "spec.newer" is no field of Service', Code.InvalidArgument)
        if (req.filter === 'wrong') throw new ConnectError('filter: character 1', Code.InvalidArgument)
        return create(ListServicesResponseSchema, { services: [{ metadata: { name: 'web' } }] })
      })
    },
    { transport: { interceptors: [withoutUnknownFields()] } },
  )
  const client = createClient(ServiceService, console)
  const newer = { pageSize: 7, readMask: { paths: ['metadata.name', 'spec.newer'] } }
  expect((await client.listServices(newer)).services[0]?.metadata?.name).toBe('web')
  await client.listServices(newer)
  await client.listServices({ readMask: { paths: ['metadata.name'] } })
  expect(masks).toEqual([newer.readMask.paths, undefined, undefined, ['metadata.name']])
  const wrong = { filter: 'wrong', readMask: { paths: ['metadata.name'] } }
  await expect(client.listServices(wrong)).rejects.toThrow('filter')
  expect(masks.length).toBe(5)
})
